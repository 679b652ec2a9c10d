<!DOCTYPE TS><TS version="2.1"><context><name>Main</name>
<message><source>Open</source><translation>Auf</translation></message>
<message><source>New</source><translation type="unfinished"></translation></message>
<message id="boats" numerus="yes"><source>%n boat(s)</source><translation><numerusform>Ein &amp;Boot</numerusform><numerusform>Boote &amp;&amp; Fische</numerusform></translation></message>
</context></TS>
<!DOCTYPE TS><TS version="2.1"><context><name>Main</name>
<message><source>Open</source><translation>Auf</translation></message>
<message><source>New</source><translation type="unfinished"></translation></message>
</context></TS>
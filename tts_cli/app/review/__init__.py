"""`review`: the web app in which a studio decides about the takes of a folder."""

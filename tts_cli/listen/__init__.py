"""Takes judged by machine, and the page to listen with."""

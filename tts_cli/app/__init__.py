"""What the commands and the library do, one file per task. Nothing is printed here."""

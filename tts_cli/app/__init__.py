"""What commands and the library do, one file a task: each ties rooms together, prints nothing."""

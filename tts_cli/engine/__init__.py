"""From tasks to speech: scheduler, loop, attempts, and the vocoder's queue."""

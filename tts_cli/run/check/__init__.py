"""The rows of a manifest, judged before anything is spoken."""

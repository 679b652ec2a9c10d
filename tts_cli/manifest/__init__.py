"""Rows as users write them: reading, checking, ids, and the requests made of them."""

"""Recognisers, and the comparison of what they heard with the text. None of them is ever shown the
text.
"""

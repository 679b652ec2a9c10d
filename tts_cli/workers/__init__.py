"""Workers: processes that speak the rows of one run through Ray. One of them, the driver, has the
folder.
"""

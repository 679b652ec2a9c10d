"""The page to listen with: what it holds, and the files it is made of."""

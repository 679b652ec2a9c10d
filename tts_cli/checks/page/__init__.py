"""The page of `report`: its data, and the files that it is made of."""

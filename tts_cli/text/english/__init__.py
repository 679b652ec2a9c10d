"""How English is read aloud: numbers, money, dates, times, units, abbreviations and the like."""

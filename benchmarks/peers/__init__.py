"""The same question on the same files, to Skyband and to others: ``skyband bench peers``."""

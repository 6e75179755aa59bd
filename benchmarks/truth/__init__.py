"""How near to the truth each method comes, where the limit lies, and whether answers are as sure as they say."""

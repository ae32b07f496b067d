"""Why a forward raised, in words, from what had been seen until then."""

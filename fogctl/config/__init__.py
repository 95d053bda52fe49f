"""The files a user writes: read, validated, and turned into typed values."""

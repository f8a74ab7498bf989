"""The language: what users write.  Plain static data, no arrays, no solver."""

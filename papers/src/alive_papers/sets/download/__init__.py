"""Get image data sets onto this machine: where they lie, downloads that go on, files out of packages."""

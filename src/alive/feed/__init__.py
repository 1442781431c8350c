"""Whatever people call data, as batches that a model runs on."""

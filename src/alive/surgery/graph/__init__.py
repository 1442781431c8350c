"""How a model is read: as torch.export follows it, as torch.fx follows one forward, and by the functions of one run."""

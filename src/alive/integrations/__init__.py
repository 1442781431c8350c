"""alive inside the trainers and loggers that people already use; each is imported only when it is asked for."""

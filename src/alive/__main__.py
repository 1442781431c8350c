"""`python -m alive` is `alive`."""

from .cli import main

if __name__ == "__main__":
    main()

"""One rank of torchtitan."""

from llmbx_torchtitan.entry import cpu


def main():
    """Train on a CPU: torchtitan looks for its device when it is imported."""
    cpu.prepare()
    from llmbx_torchtitan.entry import titan

    titan.main()


if __name__ == "__main__":
    main()

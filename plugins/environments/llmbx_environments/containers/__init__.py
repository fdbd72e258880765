"""Container runtimes (Docker, Apptainer, enroot, Pyxis) and their images."""

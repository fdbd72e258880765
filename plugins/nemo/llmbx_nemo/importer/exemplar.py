from pathlib import Path
def is_checkout(p): return False
def compare(p): return False

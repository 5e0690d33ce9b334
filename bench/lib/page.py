def write(found, out): pass

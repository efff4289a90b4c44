#!/usr/bin/env python3
"""load_cubins.py LIST: loads cubins with cuModuleLoadData and looks up a kernel in each. A line of LIST is a file, a tab and the
kernel's name. Prints what failed, then the counts. Exit status 0 when all loaded, 1 when one did not, 77 without a driver."""

import ctypes
import sys


def main():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        print(problem)
        return 77

    def text(result):
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(name))
        return f"{result} {name.value.decode() if name.value else ''}"

    def must(result, call):
        if result != 0:
            sys.exit(f"{call}: {text(result)}")

    must(cuda.cuInit(0), "cuInit")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    must(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    loaded = failed = 0
    with open(sys.argv[1], encoding="utf-8") as rows:
        for row in rows:
            path, kernel = row.rstrip("\n").split("\t")
            with open(path, "rb") as file:
                cubin = file.read()
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            call, result = "cuModuleLoadData", cuda.cuModuleLoadData(ctypes.byref(module), cubin)
            if result == 0:
                call = "cuModuleGetFunction"
                result = cuda.cuModuleGetFunction(ctypes.byref(function), module, kernel.encode())
                must(cuda.cuModuleUnload(module), "cuModuleUnload")
            if result == 0:
                loaded += 1
            else:
                failed += 1
                print(f"FAILED {path} {kernel}: {call}: {text(result)}")
    print(f"{loaded} loaded, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

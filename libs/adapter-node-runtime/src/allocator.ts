interface ForeignFunctions {
  readonly dlopen: (library: null, signatures: object) => { readonly functions: { readonly malloc_trim: (padBytes: bigint) => number } };
}

/**
 * Returns free pages of the C library's allocator to the system. By itself glibc returns the end of its heap only: one small block in use behind
 * hundreds of MiB of freed buffers keeps them all. Without glibc, or without `node:ffi`, it does nothing.
 */
export function allocatorTrim(): () => void {
  const trim = mallocTrim();
  return () => void trim?.(0n);
}

function mallocTrim(): ((padBytes: bigint) => number) | undefined {
  const { emitWarning } = process;
  // Loading the module warns each user that it is experimental; of it we need this function alone, and can do without.
  process.emitWarning = () => undefined;
  try {
    const ffi = process.getBuiltinModule("node:ffi") as ForeignFunctions | undefined;
    return ffi?.dlopen(null, { malloc_trim: { arguments: ["u64"], return: "i32" } }).functions.malloc_trim;
  } catch {
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

// The only file that calls librados. It is loaded when a pool is opened: nothing here needs it to be installed before.
// oxlint-disable-next-line typescript/triple-slash-reference -- a file of declarations of another package's modules cannot be imported
/// <reference path="./koffi.d.ts" />
import type { Library } from "koffi";
import { ConcordError } from "@concord/runtime";

const LIBRARY = "librados.so.2";

type Pointer = bigint;
type Memory = Uint8Array | BigUint64Array;
type Address = Pointer | Memory | null;
/** koffi gives small integers as numbers. */
type Size = number | bigint;

export interface Librados {
  readonly functions: ReturnType<typeof bind>;
  /** Address of memory that the caller keeps until nothing uses it. */
  address(memory: Memory): Pointer;
  /** A copy of foreign memory. */
  copy(pointer: Pointer, lengthBytes: number): Uint8Array;
  /** Called on the main thread, from any thread of the library, with the argument of the completion. */
  onComplete(action: (argument: bigint) => void): { readonly pointer: Pointer; release(): void };
}

let loaded: Promise<Librados> | undefined;

/** Once in a process. STORE_FAILED with what to install. */
export function loadLibrados(): Promise<Librados> {
  return (loaded ??= load());
}

async function load(): Promise<Librados> {
  const koffi = await import("koffi").catch((cause: unknown) => missing("the npm package koffi has no binary for this platform", cause));
  const library = open(() => koffi.load(LIBRARY));
  const callback = koffi.pointer(koffi.proto("void RadosComplete(void *completion, void *argument)"));
  return {
    functions: bind(library),
    address: koffi.address,
    copy: (pointer, lengthBytes) => (lengthBytes === 0 ? new Uint8Array() : new Uint8Array(koffi.view(pointer, lengthBytes)).slice()),
    onComplete: (action) => {
      const pointer = koffi.register((_, argument) => action(BigInt(argument)), callback);
      return { pointer, release: () => koffi.unregister(pointer) };
    },
  };
}

function open(load: () => Library): Library {
  try {
    return load();
  } catch (cause) {
    return missing(`${LIBRARY} cannot be loaded: apt-get install librados2`, cause);
  }
}

function missing(message: string, cause: unknown): never {
  throw new ConcordError("STORE_FAILED", `objects in RADOS: ${message}`, { applied: "no", cause });
}

const bind = (library: Library) => ({ ...bindCluster(library), ...bindWrites(library), ...bindReads(library) });

const bindCluster = (library: Library) => {
  const func: Library["func"] = (definition) => library.func(definition);
  return {
    create: func<(cluster: BigUint64Array, name: string, user: string, flags: number) => number>(
      "int rados_create2(void *cluster, const char *name, const char *user, uint64_t flags)",
    ),
    readConf: func<(cluster: Pointer, path: string) => number>("int rados_conf_read_file(void *cluster, const char *path)"),
    setConf: func<(cluster: Pointer, name: string, value: string) => number>(
      "int rados_conf_set(void *cluster, const char *name, const char *value)",
    ),
    connect: func<(cluster: Pointer) => number>("int rados_connect(void *cluster)"),
    shutdown: func<(cluster: Pointer) => void>("void rados_shutdown(void *cluster)"),
    createContext: func<(cluster: Pointer, pool: string, context: BigUint64Array) => number>(
      "int rados_ioctx_create(void *cluster, const char *pool, void *context)",
    ),
    setNamespace: func<(context: Pointer, name: string) => void>("void rados_ioctx_set_namespace(void *context, const char *name)"),
    destroyContext: func<(context: Pointer) => void>("void rados_ioctx_destroy(void *context)"),
    createCompletion: func<(argument: Pointer, callback: Pointer, completion: BigUint64Array) => number>(
      "int rados_aio_create_completion2(void *argument, void *callback, void *completion)",
    ),
    returnValue: func<(completion: Pointer) => number>("int rados_aio_get_return_value(void *completion)"),
    releaseCompletion: func<(completion: Pointer) => void>("void rados_aio_release(void *completion)"),
  };
};

const bindWrites = (library: Library) => {
  const func: Library["func"] = (definition) => library.func(definition);
  return {
    createWrite: func<() => Pointer>("void *rados_create_write_op()"),
    releaseWrite: func<(operation: Pointer) => void>("void rados_release_write_op(void *operation)"),
    writeCreate: func<(operation: Pointer, exclusive: number, category: null) => void>(
      "void rados_write_op_create(void *operation, int exclusive, const char *category)",
    ),
    writeCompareAttribute: func<(operation: Pointer, name: string, operator: number, value: Memory, lengthBytes: number) => void>(
      "void rados_write_op_cmpxattr(void *operation, const char *name, uint8_t operator_, void *value, size_t length)",
    ),
    writeCompareKey: func<
      (operation: Pointer, key: string, operator: number, value: Memory, keyBytes: number, valueBytes: number, result: null) => void
    >(
      "void rados_write_op_omap_cmp2(void *operation, const char *key, uint8_t operator_, void *value, size_t key_bytes, size_t value_bytes, void *result)",
    ),
    writeSetAttribute: func<(operation: Pointer, name: string, value: Memory, lengthBytes: number) => void>(
      "void rados_write_op_setxattr(void *operation, const char *name, void *value, size_t length)",
    ),
    writeSetKeys: func<(operation: Pointer, keys: Memory, values: Memory, keyBytes: Memory, valueBytes: Memory, count: number) => void>(
      "void rados_write_op_omap_set2(void *operation, void *keys, void *values, void *key_bytes, void *value_bytes, size_t count)",
    ),
    writeRemoveKeys: func<(operation: Pointer, keys: Memory, keyBytes: Memory, count: number) => void>(
      "void rados_write_op_omap_rm_keys2(void *operation, void *keys, void *key_bytes, size_t count)",
    ),
    writeBytes: func<(operation: Pointer, bytes: Memory, lengthBytes: number, at: number) => void>(
      "void rados_write_op_write(void *operation, void *bytes, size_t length, uint64_t at)",
    ),
    writeTruncate: func<(operation: Pointer, at: number) => void>("void rados_write_op_truncate(void *operation, uint64_t at)"),
    writeRemove: func<(operation: Pointer) => void>("void rados_write_op_remove(void *operation)"),
    operateWrite: func<(operation: Pointer, context: Pointer, completion: Pointer, object: string, time: null, flags: number) => number>(
      "int rados_aio_write_op_operate(void *operation, void *context, void *completion, const char *object, void *time, int flags)",
    ),
  };
};

const bindReads = (library: Library) => {
  const func: Library["func"] = (definition) => library.func(definition);
  return {
    createRead: func<() => Pointer>("void *rados_create_read_op()"),
    releaseRead: func<(operation: Pointer) => void>("void rados_release_read_op(void *operation)"),
    readBytes: func<(operation: Pointer, at: number, lengthBytes: number, into: Address, count: Address, result: null) => void>(
      "void rados_read_op_read(void *operation, uint64_t at, size_t length, void *into, void *count, void *result)",
    ),
    readAttributes: func<(operation: Pointer, iterator: Address, result: null) => void>(
      "void rados_read_op_getxattrs(void *operation, void *iterator, void *result)",
    ),
    readKeys: func<
      (operation: Pointer, after: string, prefix: string, limit: number, iterator: Address, more: Address, result: null) => void
    >(
      "void rados_read_op_omap_get_vals2(void *operation, const char *after, const char *prefix, uint64_t limit, void *iterator, void *more, void *result)",
    ),
    readKeysByName: func<(operation: Pointer, keys: Memory, count: number, keyBytes: Memory, iterator: Address, result: null) => void>(
      "void rados_read_op_omap_get_vals_by_keys2(void *operation, void *keys, size_t count, void *key_bytes, void *iterator, void *result)",
    ),
    operateRead: func<(operation: Pointer, context: Pointer, completion: Pointer, object: string, flags: number) => number>(
      "int rados_aio_read_op_operate(void *operation, void *context, void *completion, const char *object, int flags)",
    ),
    nextAttribute: func<(iterator: Pointer, name: Memory, value: Memory, lengthBytes: Memory) => number>(
      "int rados_getxattrs_next(void *iterator, void *name, void *value, void *length)",
    ),
    endAttributes: func<(iterator: Pointer) => void>("void rados_getxattrs_end(void *iterator)"),
    nextKey: func<(iterator: Pointer, key: Memory, value: Memory, keyBytes: Memory, valueBytes: Memory) => number>(
      "int rados_omap_get_next2(void *iterator, void *key, void *value, void *key_bytes, void *value_bytes)",
    ),
    endKeys: func<(iterator: Pointer) => void>("void rados_omap_get_end(void *iterator)"),
    stringLength: func<(text: Pointer) => Size>("size_t strlen(void *text)"),
    /** Of the C library: no thread is joined and no destructor runs. */
    exit: func<(code: number) => void>("void _exit(int code)"),
  };
};

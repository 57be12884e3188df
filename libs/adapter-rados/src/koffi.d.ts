// What librados.ts uses of koffi 3.3.4, typed: the package's own declarations are `any`. A pointer is a bigint.
declare module "koffi" {
  type Function<Call extends (...values: never[]) => unknown> = Call & {
    async: (...values: [...Parameters<Call>, (error: Error | null, result: ReturnType<Call>) => void]) => void;
  };
  interface Library {
    func<Call extends (...values: never[]) => unknown>(definition: string): Function<Call>;
  }
  type CallbackType = object;
  export function load(path: string): Library;
  export function proto(definition: string): CallbackType;
  export function pointer(type: CallbackType): CallbackType;
  export function register(callback: (completion: bigint, argument: bigint) => void, type: CallbackType): bigint;
  export function unregister(callback: bigint): void;
  export function address(value: Uint8Array | BigUint64Array): bigint;
  export function view(pointer: bigint, lengthBytes: number): ArrayBuffer;
}

// The private modules of kafkajs 2.2.4 that kafkajs-wire.ts uses, as far as it uses them.
declare module "kafkajs/src/cluster/index.js" {
  interface Broker {
    readonly connectionPool: { send(protocol: { readonly request: object; readonly response: object }): Promise<unknown> };
    createTopics(request: object): Promise<unknown>;
    describeConfigs(request: object): Promise<unknown>;
    findGroupCoordinator(request: object): Promise<unknown>;
    listOffsets(request: object): Promise<unknown>;
    offsetCommit(request: object): Promise<unknown>;
    offsetFetch(request: object): Promise<unknown>;
    initProducerId(request: object): Promise<unknown>;
    addPartitionsToTxn(request: object): Promise<unknown>;
    addOffsetsToTxn(request: object): Promise<unknown>;
    txnOffsetCommit(request: object): Promise<unknown>;
    endTxn(request: object): Promise<unknown>;
  }
  export default class Cluster {
    constructor(options: object);
    readonly brokerPool: { readonly metadata: { readonly brokers: readonly { readonly nodeId: number }[] } };
    connect(): Promise<void>;
    disconnect(): Promise<void>;
    addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
    refreshMetadataIfNecessary(): Promise<void>;
    findTopicPartitionMetadata(
      topic: string,
    ): readonly { readonly partitionId: number; readonly leader: number; readonly replicas: readonly number[] }[];
    findBroker(request: { readonly nodeId: number }): Promise<Broker>;
    findControllerBroker(): Promise<Broker>;
    findGroupCoordinator(request: { readonly groupId: string; readonly coordinatorType: number }): Promise<Broker>;
  }
}
declare module "kafkajs/src/network/connection.js" {
  export default class Connection {
    connect(): Promise<boolean>;
  }
}
declare module "kafkajs/src/network/requestQueue/index.js" {
  export default class RequestQueue {
    constructor(options: object);
    readonly pending: readonly unknown[];
    readonly throttleCheckTimeoutId: NodeJS.Timeout | null;
    throttledUntil: number;
    push(request: object): void;
    destroy(): void;
    scheduleCheckPendingRequests(): void;
    checkPendingRequests(): void;
  }
}
declare module "kafkajs/src/network/socketFactory.js" {
  export default function socketFactory(): import("kafkajs").ISocketFactory;
}
declare module "kafkajs/src/protocol/encoder.js" {
  export default class Encoder {
    readonly buffer: Buffer;
    writeInt16(value: number): this;
    writeInt32(value: number): this;
    writeString(value: string | null): this;
    writeBytes(value: Uint8Array): this;
    writeArray(value: readonly Encoder[]): this;
    writeBufferInternal(value: Buffer): void;
  }
}
declare module "kafkajs/src/protocol/decoder.js" {
  export default class Decoder {
    constructor(bytes: Buffer);
    readInt16(): number;
    readInt32(): number;
    readInt64(): { toString(): string };
    readString(): string | null;
    readBytes(length: number): Buffer;
    readArray<Item>(read: (decoder: Decoder) => Item): Item[];
  }
}
declare module "kafkajs/src/protocol/error.js" {
  export function createErrorFromCode(code: number): Error & { readonly type: string };
}

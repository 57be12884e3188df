/** The parts of google/protobuf/descriptor.proto that server reflection needs, as messages of proto-loader. */
import { fromJSON, type MessageTypeDefinition } from "@grpc/proto-loader";

export interface FileDescriptor {
  readonly name: string;
  readonly package?: string;
  readonly dependency?: readonly string[];
  readonly messageType?: readonly MessageDescriptor[];
  readonly enumType?: readonly EnumDescriptor[];
  readonly service?: readonly ServiceDescriptor[];
  readonly syntax?: string;
}

export interface MessageDescriptor {
  readonly name: string;
  readonly field?: readonly FieldDescriptor[];
  readonly nestedType?: readonly MessageDescriptor[];
  readonly enumType?: readonly EnumDescriptor[];
  readonly oneofDecl?: readonly { readonly name: string }[];
  readonly options?: { readonly mapEntry?: boolean };
}

export interface FieldDescriptor {
  readonly name: string;
  readonly number: number;
  readonly label: number;
  readonly type: number;
  readonly typeName?: string;
  readonly oneofIndex?: number;
}

export interface EnumDescriptor {
  readonly name: string;
  readonly value: readonly { readonly name: string; readonly number: number }[];
}

export interface ServiceDescriptor {
  readonly name: string;
  readonly method: readonly MethodDescriptor[];
}

export interface MethodDescriptor {
  readonly name: string;
  readonly inputType: string;
  readonly outputType: string;
  readonly clientStreaming?: boolean;
  readonly serverStreaming?: boolean;
}

const one = (type: string, id: number) => ({ type, id });
const many = (type: string, id: number) => ({ type, id, rule: "repeated" });

/** Names and numbers as in descriptor.proto; label and type are enums there, with the same encoding as int32. */
const DESCRIPTOR_PROTO = {
  nested: {
    File: {
      fields: {
        name: one("string", 1),
        package: one("string", 2),
        dependency: many("string", 3),
        messageType: many("Message", 4),
        enumType: many("Enum", 5),
        service: many("Service", 6),
        syntax: one("string", 12),
      },
    },
    Message: {
      fields: {
        name: one("string", 1),
        field: many("Field", 2),
        nestedType: many("Message", 3),
        enumType: many("Enum", 4),
        options: one("Options", 7),
        oneofDecl: many("Named", 8),
      },
    },
    Options: { fields: { mapEntry: one("bool", 7) } },
    Named: { fields: { name: one("string", 1) } },
    Field: {
      fields: {
        name: one("string", 1),
        number: one("int32", 3),
        label: one("int32", 4),
        type: one("int32", 5),
        typeName: one("string", 6),
        oneofIndex: one("int32", 9),
      },
    },
    Enum: { fields: { name: one("string", 1), value: many("EnumValue", 2) } },
    EnumValue: { fields: { name: one("string", 1), number: one("int32", 2) } },
    Service: { fields: { name: one("string", 1), method: many("Method", 2) } },
    Method: {
      fields: {
        name: one("string", 1),
        inputType: one("string", 2),
        outputType: one("string", 3),
        clientStreaming: one("bool", 5),
        serverStreaming: one("bool", 6),
      },
    },
  },
};

let codec: MessageTypeDefinition<object, object> | undefined;

function fileCodec(): MessageTypeDefinition<object, object> {
  codec ??= fromJSON(DESCRIPTOR_PROTO)["File"] as MessageTypeDefinition<object, object>;
  return codec;
}

export function decodeFile(bytes: Uint8Array): FileDescriptor {
  return fileCodec().deserialize(Buffer.from(bytes)) as FileDescriptor;
}

export function encodeFile(file: FileDescriptor): Uint8Array {
  return fileCodec().serialize(file);
}

package main

import (
	"encoding/binary"
	"math"
)

// encoders give what is hashed of a value: the byte of its type, then its bytes. See "The token of a row" of protos/README.md.
var encoders = map[string]func(value any) []byte{
	"bigint":  func(value any) []byte { return binary.BigEndian.AppendUint64([]byte{1}, uint64(value.(int64))) },
	"int":     func(value any) []byte { return binary.BigEndian.AppendUint32([]byte{2}, uint32(value.(int32))) },
	"text":    func(value any) []byte { return append([]byte{3}, value.(string)...) },
	"blob":    func(value any) []byte { return append([]byte{4}, value.([]byte)...) },
	"boolean": func(value any) []byte { return append([]byte{5}, map[bool]byte{false: 0, true: 1}[value.(bool)]) },
	"double": func(value any) []byte {
		return binary.BigEndian.AppendUint64([]byte{6}, math.Float64bits(value.(float64)))
	},
	"timestamp": func(value any) []byte { return binary.BigEndian.AppendUint64([]byte{7}, uint64(value.(int64))) },
	"uuid":      func(value any) []byte { return append([]byte{8}, value.([]byte)...) },
}

// tokenOf is the token of an encoded value: FNV-1a 64, finished with fmix64.
func tokenOf(encoded []byte) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, one := range encoded {
		hash = (hash ^ uint64(one)) * 0x100000001b3
	}
	hash = (hash ^ hash>>33) * 0xff51afd7ed558ccd
	hash = (hash ^ hash>>33) * 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// A client of Concord in Go: calls a server, reads its errors, computes tokens, and prints what it saw as JSON.
// Usage: client ADDRESS VECTORS_FILE
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	storagev1 "github.com/concord-db/concord/gen/go/concord/storage/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

type column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type table struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Columns      []column `json:"columns"`
	PartitionKey []string `json:"partitionKey"`
}

type failure struct {
	Status       string            `json:"status"`
	Message      string            `json:"message"`
	Reason       string            `json:"reason"`
	Domain       string            `json:"domain"`
	Metadata     map[string]string `json:"metadata"`
	RetryDelayMs int64             `json:"retryDelayMs"`
}

type report struct {
	Health  string            `json:"health"`
	Tables  []table           `json:"tables"`
	Failure failure           `json:"failure"`
	Tokens  map[string]string `json:"tokens"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	connection := must(grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer connection.Close()
	health := must(healthv1.NewHealthClient(connection).Check(ctx, &healthv1.HealthCheckRequest{}))
	schemas := storagev1.NewSchemaServiceClient(connection)
	schema := must(schemas.GetSchema(ctx, &storagev1.GetSchemaRequest{}))
	_, err := schemas.GetSchema(ctx, &storagev1.GetSchemaRequest{SchemaVersion: 99})
	seen := report{
		Health:  health.GetStatus().String(),
		Tables:  tablesOf(schema),
		Failure: failureOf(err),
		Tokens:  tokensOf(os.Args[2]),
	}
	fmt.Println(string(must(json.Marshal(seen))))
}

func tablesOf(schema *storagev1.GetSchemaResponse) []table {
	tables := []table{}
	for _, definition := range schema.GetDefinitions() {
		columns := []column{}
		for _, one := range definition.GetColumns() {
			columns = append(columns, column{one.GetName(), one.GetType().String()})
		}
		tables = append(tables, table{definition.GetName(), definition.GetKind().String(), columns, definition.GetPartitionKey()})
	}
	return tables
}

func failureOf(err error) failure {
	failed := status.Convert(err)
	seen := failure{Status: failed.Code().String(), Message: failed.Message()}
	for _, detail := range failed.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			seen.Reason, seen.Domain, seen.Metadata = detail.GetReason(), detail.GetDomain(), detail.GetMetadata()
		case *errdetails.RetryInfo:
			seen.RetryDelayMs = detail.GetRetryDelay().AsDuration().Milliseconds()
		}
	}
	return seen
}

// tokensOf computes the token of each published vector from its value, or from the bytes to hash where the type is not known here.
func tokensOf(path string) map[string]string {
	var published struct {
		Vectors []struct{ Type, Value, Hashed string }
	}
	check(json.Unmarshal(must(os.ReadFile(path)), &published))
	tokens := map[string]string{}
	for _, vector := range published.Vectors {
		encoded := must(hex.DecodeString(vector.Hashed))
		if encode, known := encoders[vector.Type]; known {
			encoded = encode(parse(vector.Type, vector.Value))
		}
		tokens[vector.Type+" "+vector.Value] = strconv.FormatUint(tokenOf(encoded), 10)
	}
	return tokens
}

func parse(kind, text string) any {
	switch kind {
	case "bigint", "timestamp":
		return must(strconv.ParseInt(text, 10, 64))
	case "int":
		return int32(must(strconv.ParseInt(text, 10, 32)))
	case "blob", "uuid":
		return must(hex.DecodeString(strings.ReplaceAll(text, "-", "")))
	case "boolean":
		return must(strconv.ParseBool(text))
	case "double":
		return must(strconv.ParseFloat(text, 64))
	default:
		return text
	}
}

func must[Value any](value Value, err error) Value {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A day's work by an S3 client in Go: CLIENT (minio or aws), ADDRESS, a folder to store, an empty folder to bring it back to.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

const partBytes = 5 * 1024 * 1024

func main() {
	client, address, files, back := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	days := map[string]func(context.Context, string, string, string){"minio": minioDay, "aws": awsDay}
	days[client](context.Background(), address, files, back)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func demand(holds bool, what string, got ...any) {
	if !holds {
		panic(fmt.Sprintln(append([]any{what}, got...)...))
	}
}

// The files below a folder, as keys.
func namesIn(folder string) []string {
	var names []string
	check(filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.ToSlash(must(filepath.Rel(folder, path))))
		}
		return err
	}))
	return names
}

func fetched(url string) string {
	answer := must(http.Get(url))
	defer answer.Body.Close()
	demand(answer.StatusCode == 200, "status", answer.StatusCode)
	return string(must(io.ReadAll(answer.Body)))
}

package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

func minioDay(ctx context.Context, address, files, back string) {
	keys := credentials.NewStaticV4(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "")
	client := must(minio.New(address, &minio.Options{Creds: keys, TrailingHeaders: true}))
	check(client.MakeBucket(ctx, "mgo", minio.MakeBucketOptions{Region: os.Getenv("AWS_REGION")}))
	names := namesIn(files)
	put := minio.PutObjectOptions{PartSize: partBytes, Checksum: minio.ChecksumCRC32C, UserMetadata: map[string]string{"from": "minio-go"}}
	for _, name := range names {
		must(client.FPutObject(ctx, "mgo", name, filepath.Join(files, name), put))
		check(client.FGetObject(ctx, "mgo", name, filepath.Join(back, name), minio.GetObjectOptions{Checksum: true}))
	}
	count := 0
	for one := range client.ListObjects(ctx, "mgo", minio.ListObjectsOptions{Recursive: true, MaxKeys: 2}) {
		check(one.Err)
		count++
	}
	demand(count == len(names), "listed", count)
	url := must(client.PresignedGetObject(ctx, "mgo", "notes.txt", time.Minute, nil))
	demand(fetched(url.String()) == "notes of a day\n", "presigned")
	info := must(client.StatObject(ctx, "mgo", "notes.txt", minio.StatObjectOptions{}))
	demand(info.UserMetadata["From"] == "minio-go", "metadata", info.UserMetadata)

	check(client.EnableVersioning(ctx, "mgo"))
	check(client.PutObjectTagging(ctx, "mgo", "notes.txt", must(tags.MapToObjectTags(map[string]string{"age": "old"})), minio.PutObjectTaggingOptions{}))
	// Parts that are copied.
	source := minio.CopySrcOptions{Bucket: "mgo", Object: "large.bin"}
	must(client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: "mgo", Object: "twice"}, source, source))
	must(client.CopyObject(ctx, minio.CopyDestOptions{Bucket: "mgo", Object: "copy"}, minio.CopySrcOptions{Bucket: "mgo", Object: "notes.txt"}))
	for _, name := range names {
		check(client.RemoveObject(ctx, "mgo", name, minio.RemoveObjectOptions{}))
	}
	all := client.ListObjects(ctx, "mgo", minio.ListObjectsOptions{Recursive: true, WithVersions: true})
	for failed := range client.RemoveObjects(ctx, "mgo", all, minio.RemoveObjectsOptions{}) {
		check(failed.Err)
	}
	check(client.RemoveBucket(ctx, "mgo"))
	demand(len(must(client.ListBuckets(ctx))) == 0, "buckets are left")
}

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func awsDay(ctx context.Context, address, files, back string) {
	client := s3.New(s3.Options{
		Region:       os.Getenv("AWS_REGION"),
		BaseEndpoint: aws.String("http://" + address),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
	})
	bucket := aws.String("ago")
	must(client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket}))
	names := namesIn(files)
	for _, name := range names {
		content := must(os.ReadFile(filepath.Join(files, name)))
		if len(content) > partBytes {
			inParts(ctx, client, bucket, aws.String(name), content)
		} else {
			must(client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String(name), Body: bytes.NewReader(content)}))
		}
		got := must(client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(name)}))
		path := filepath.Join(back, name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, must(io.ReadAll(got.Body)), 0o644))
		check(got.Body.Close())
	}
	count := 0
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int32(2)})
	for pages.HasMorePages() {
		count += len(must(pages.NextPage(ctx)).Contents)
	}
	demand(count == len(names), "listed", count)
	signed := must(s3.NewPresignClient(client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("notes.txt")}, s3.WithPresignExpires(time.Minute)))
	demand(fetched(signed.URL) == "notes of a day\n", "presigned")
	must(client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String("ago/notes.txt")}))
	must(client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("copy")}))
	removals := &types.Delete{}
	for _, name := range append(names, "copy") {
		removals.Objects = append(removals.Objects, types.ObjectIdentifier{Key: aws.String(name)})
	}
	demand(len(must(client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, Delete: removals})).Errors) == 0, "deletes")
	must(client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket}))
}

func inParts(ctx context.Context, client *s3.Client, bucket, key *string, content []byte) {
	upload := must(client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key}))
	var parts []types.CompletedPart
	for at := 0; at < len(content); at += partBytes {
		number := aws.Int32(int32(at/partBytes) + 1)
		body := bytes.NewReader(content[at:min(at+partBytes, len(content))])
		sent := must(client.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: upload.UploadId, PartNumber: number, Body: body}))
		parts = append(parts, types.CompletedPart{PartNumber: number, ETag: sent.ETag, ChecksumCRC32: sent.ChecksumCRC32})
	}
	listed := must(client.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: upload.UploadId}))
	demand(len(listed.Parts) == len(parts), "parts", len(listed.Parts))
	whole := &types.CompletedMultipartUpload{Parts: parts}
	must(client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: key, UploadId: upload.UploadId, MultipartUpload: whole}))
}

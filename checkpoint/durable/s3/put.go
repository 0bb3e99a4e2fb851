package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint/durable"
)

// Put implements durable.Store.
func (s *Store) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := durable.CheckName(name); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if most := s.cfg.PartBytes * maxParts; size < 0 || size > most {
		return fmt.Errorf("put %s: %d bytes, want 0 to %d: PartBytes is %d", name, size, most, s.cfg.PartBytes)
	}
	if size > s.cfg.PartBytes {
		return wrap(ctx, "put", name, s.upload(ctx, name, size, r))
	}
	b := make([]byte, size)
	err := readPart(r, b, true)
	if err == nil {
		_, err = s.cfg.Client.PutObject(ctx, &awss3.PutObjectInput{
			Bucket: s.bucket(), Key: s.key(name), Body: bytes.NewReader(b), ContentLength: aws.Int64(size),
		})
	}
	return wrap(ctx, "put", name, err)
}

// readPart fills b; behind the last part r must end.
func readPart(r io.Reader, b []byte, last bool) error {
	if n, err := io.ReadFull(r, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%d bytes fewer than announced: %w", len(b)-n, io.ErrUnexpectedEOF)
		}
		return err
	}
	if !last {
		return nil
	}
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("more bytes than announced: %w", io.ErrShortWrite)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// abortTime bounds the end of an upload that failed, whose ctx may have ended.
const abortTime = 10 * time.Second

// upload puts an object in parts. It appears when all have arrived.
func (s *Store) upload(ctx context.Context, name string, size int64, r io.Reader) error {
	begun, err := s.cfg.Client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: s.bucket(), Key: s.key(name)})
	if err != nil {
		return err
	}
	sent, err := s.send(ctx, name, begun.UploadId, size, r)
	if err == nil {
		_, err = s.cfg.Client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: s.bucket(), Key: s.key(name), UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: sent},
		})
	}
	if err == nil {
		return nil
	}
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	// What cannot be aborted is no object, and goes by the bucket's rule.
	_, _ = s.cfg.Client.AbortMultipartUpload(actx, &awss3.AbortMultipartUploadInput{Bucket: s.bucket(), Key: s.key(name), UploadId: begun.UploadId})
	return err
}

// send sends the parts of an upload, some at a time.
func (s *Store) send(ctx context.Context, name string, id *string, size int64, r io.Reader) (parts, error) {
	count := int((size + s.cfg.PartBytes - 1) / s.cfg.PartBytes)
	sent := make(parts, count)
	free := make(chan []byte, s.cfg.Parallel+1) // the memory that there is
	for range cap(free) {
		free <- nil // made when it is needed
	}
	g, ctx := errgroup.WithContext(ctx)
	var err error
	for i := 0; i < count && err == nil; i++ {
		var b []byte
		select {
		case b = <-free:
		case <-ctx.Done():
			err = context.Cause(ctx)
			continue
		}
		if b == nil {
			b = make([]byte, s.cfg.PartBytes)
		}
		part := b[:min(s.cfg.PartBytes, size-int64(i)*s.cfg.PartBytes)]
		if err = readPart(r, part, i == count-1); err != nil {
			continue
		}
		g.Go(func() error {
			var err error
			sent[i], err = s.sendPart(ctx, name, id, int32(i+1), part)
			free <- b // there is room for all
			return err
		})
	}
	if err != nil {
		g.Go(func() error { return err }) // ends those that are sent
	}
	return sent, g.Wait()
}

func (s *Store) sendPart(ctx context.Context, name string, id *string, number int32, b []byte) (types.CompletedPart, error) {
	out, err := s.cfg.Client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: s.bucket(), Key: s.key(name), UploadId: id, PartNumber: aws.Int32(number), Body: bytes.NewReader(b), ContentLength: aws.Int64(int64(len(b))),
	})
	if err != nil {
		return types.CompletedPart{}, fmt.Errorf("part %d: %w", number, err)
	}
	return types.CompletedPart{
		PartNumber: aws.Int32(number), ETag: out.ETag, ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC32C: out.ChecksumCRC32C,
		ChecksumCRC64NVME: out.ChecksumCRC64NVME, ChecksumSHA1: out.ChecksumSHA1, ChecksumSHA256: out.ChecksumSHA256,
	}, nil
}

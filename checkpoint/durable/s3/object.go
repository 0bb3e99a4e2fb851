package s3

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/skerry-ft/skerry/checkpoint"
)

// getTries is how often a connection that broke is taken up again, without a byte in
// between.
const getTries = 4

// object is one that is being read. It is owned by one goroutine.
type object struct {
	s    *Store
	ctx  context.Context // of Get: it reads for no longer
	name string
	body io.ReadCloser
	etag *string
	read int64
	sum  uint32 // of what has been read
	size int64  // of the object
	left int    // tries
	over error  // what Read returns from now on; nil: it reads
}

// open asks for what has not been read.
func (o *object) open() error {
	in := &awss3.GetObjectInput{Bucket: o.s.bucket(), Key: o.s.key(o.name), IfMatch: o.etag}
	if o.read > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", o.read))
	}
	out, err := o.s.cfg.Client.GetObject(o.ctx, in)
	if err != nil {
		return err
	}
	if o.etag == nil {
		o.etag, o.size, o.left = out.ETag, aws.ToInt64(out.ContentLength), getTries
	} else if got := aws.ToInt64(out.ContentLength); got != o.size-o.read {
		return errors.Join(fmt.Errorf("the service sends %d bytes from %d on, want %d", got, o.read, o.size-o.read), out.Body.Close())
	}
	o.body = out.Body
	return nil
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	for o.over == nil {
		n, err := o.body.Read(p)
		o.read += int64(n)
		o.sum = crc32.Update(o.sum, castagnoli, p[:n])
		switch {
		case n > 0:
			o.left = getTries
			return n, nil // an error comes again
		case err == nil:
			return 0, nil
		case errors.Is(err, io.EOF) && o.read >= o.size:
			return 0, io.EOF
		case o.ctx.Err() != nil || o.left == 0:
			return 0, wrap(o.ctx, "get", o.name, err)
		case o.read >= o.size:
			o.over = o.check(err)
			continue
		}
		o.left--
		_ = o.body.Close() // it is broken
		if err := o.open(); err != nil {
			o.over = wrap(o.ctx, "get", o.name, err)
		}
	}
	return 0, o.over
}

// castagnoli is the table of CRC32C. It is built once by the runtime, and is never written.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// check finds out what an error means that came behind the last byte: most often the SDK's, that
// the object's checksum is another one. The caller has the bytes by then. So the object is read
// once more: where that goes well and the bytes are the same, they are right, and it is io.EOF;
// where it ends in the same way, the service has lost bytes, which is checkpoint.ErrCorrupt.
func (o *object) check(cause error) error {
	_ = o.body.Close() // all of it was read
	had := o.sum
	o.read, o.sum = 0, 0
	err := o.open()
	if err == nil {
		var n int64
		sum := crc32.New(castagnoli)
		n, err = io.Copy(sum, o.body)
		switch {
		case err == nil && n == o.size && sum.Sum32() == had:
			return io.EOF
		case err == nil:
			err = errors.New("a second time it came with other bytes, which are right")
		case n >= o.size && o.ctx.Err() == nil:
			return wrap(o.ctx, "get", o.name, fmt.Errorf("%w: twice: %w", checkpoint.ErrCorrupt, err))
		}
	}
	return wrap(o.ctx, "get", o.name, fmt.Errorf("%w; read again: %w", cause, err))
}

// Close implements io.Closer.
func (o *object) Close() error { return o.body.Close() }

package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
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
	size int64 // of the object
	left int   // tries
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
	for {
		n, err := o.body.Read(p)
		o.read += int64(n)
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
		}
		o.left--
		_ = o.body.Close() // it is broken
		if err := o.open(); err != nil {
			o.body, o.left = io.NopCloser(eof{}), 0
			return 0, wrap(o.ctx, "get", o.name, err)
		}
	}
}

// eof is the body of an object that could not be taken up again.
type eof struct{}

// Read implements io.Reader.
func (eof) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Close implements io.Closer.
func (o *object) Close() error { return o.body.Close() }

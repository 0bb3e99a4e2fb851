package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/internal/problems"
)

// The bounds of S3, and the defaults of Config.
const (
	minPartBytes     = 5 << 20
	maxPartBytes     = 5 << 30
	maxParts         = 10_000
	maxParallel      = 64
	defaultPartBytes = 64 << 20
	defaultParallel  = 4
)

// Config says which bucket.
type Config struct {
	// Client speaks to the service. Required.
	Client *awss3.Client
	// Bucket exists. Required.
	Bucket string
	// Prefix is put before all names, with a slash between; "": none. No two runs may have
	// the same.
	Prefix string
	// PartBytes is the size of the parts of a large object, from 5 MiB; 0 means 64 MiB. An
	// object has 10,000 parts at most: a file of durable.Config.MaxFileBytes must not need
	// more.
	PartBytes int64
	// Parallel is how many parts of an object travel at a time; 0 means 4. One connection
	// rarely fills a host's network.
	Parallel int
}

func (c Config) withDefaults() Config {
	if c.PartBytes == 0 {
		c.PartBytes = defaultPartBytes
	}
	if c.Parallel == 0 {
		c.Parallel = defaultParallel
	}
	return c
}

// Validate returns all problems, joined.
func (c Config) Validate() error {
	c = c.withDefaults()
	var l problems.List
	l.Want(c.Client != nil, "Client", c.Client, "a client of S3")
	l.Want(c.Bucket != "", "Bucket", c.Bucket, "a name")
	if c.Prefix != "" {
		l.About("Prefix", durable.CheckName(c.Prefix))
	}
	problems.Within(&l, "PartBytes", c.PartBytes, minPartBytes, maxPartBytes)
	problems.Within(&l, "Parallel", c.Parallel, 1, maxParallel)
	return l.Err()
}

// Store is a durable.Store in a bucket. It is safe for concurrent use, by several
// processes too.
type Store struct {
	cfg    Config
	prefix string // with its slash
}

// New checks cfg, and returns all problems, joined. It asks the service nothing.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	s := &Store{cfg: cfg.withDefaults()}
	if cfg.Prefix != "" {
		s.prefix = cfg.Prefix + "/"
	}
	return s, nil
}

func (s *Store) bucket() *string { return aws.String(s.cfg.Bucket) }

func (s *Store) key(name string) *string { return aws.String(s.prefix + name) }

// wrap says what was being done, of which name.
func wrap(ctx context.Context, verb, name string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "NoSuchKey", "NotFound":
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		case "AccessDenied":
			err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
		}
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

// Get implements durable.Store.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := durable.CheckName(name); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	r := &object{s: s, ctx: ctx, name: name}
	if err := r.open(); err != nil {
		return nil, wrap(ctx, "get", name, err)
	}
	return r, nil
}

// List implements durable.Store.
func (s *Store) List(ctx context.Context, prefix string, each func(durable.Entry) error) error {
	pages := awss3.NewListObjectsV2Paginator(s.cfg.Client, &awss3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.key(prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return wrap(ctx, "list", prefix, err)
		}
		for _, o := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(o.Key), s.prefix)
			if durable.CheckName(name) != nil {
				continue
			}
			if err := each(durable.Entry{Name: name, SizeBytes: aws.ToInt64(o.Size)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete implements durable.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := durable.CheckName(name); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	_, err := s.cfg.Client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: s.bucket(), Key: s.key(name)})
	if err = wrap(ctx, "delete", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// parts are those of an upload, in order.
type parts []types.CompletedPart

// Package s3 is a durable.Store in a bucket of S3, or of a service that speaks its
// protocol.
//
//	cfg, err := config.LoadDefaultConfig(ctx)          // github.com/aws/aws-sdk-go-v2/config, or otherwise
//	bucket, err := s3.New(s3.Config{Client: awss3.NewFromConfig(cfg), Bucket: "ckpt", Prefix: "run7"})
//	c, err := durable.New(durable.Config{Store: bucket, Every: 500})
//
// The client is the program's: endpoint, region, credentials, retries, TLS and checksums are
// its options. A service that is not Amazon's may want UsePathStyle, and
// RequestChecksumCalculation "when required".
//
// # Put
//
// An object of up to Config.PartBytes is one request. A larger one is uploaded in parts, of
// which Config.Parallel travel at a time; it appears when all are there. Each part is in
// memory until it has arrived, so that it can be sent again: a Put takes
// Parallel+1 times PartBytes of memory. An upload that a dead process has left is no object,
// and is charged for by some services: give the bucket a lifecycle rule that aborts
// incomplete uploads after some days.
//
// The service must be consistent: what a Put or a Delete has done, the next Get and List
// see. S3 is.
//
// # Get
//
// A connection that breaks is taken up again where it broke, a few times, if the object
// is still the same; if it was replaced meanwhile, that is an error.
//
// Put has goroutines, and waits for them. Everything ends by its ctx.
package s3

package s3_test

import (
	"fmt"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/s3"
)

// A bucket of a service on this host.
func ExampleNew() {
	endpoint := "http://127.0.0.1:9000"
	client := awss3.New(awss3.Options{BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true})
	bucket, err := s3.New(s3.Config{Client: client, Bucket: "ckpt", Prefix: "run7"})
	if err == nil {
		_, err = durable.New(durable.Config{Store: bucket, Every: 500})
	}
	fmt.Println(err)
	// Output: <nil>
}

package s3_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// fake is as much of S3 as a Store needs, in memory. It signs for nothing.
type fake struct {
	t      *testing.T
	server *httptest.Server

	// fault is asked before each request whether it has answered it; nil: it has not.
	fault func(w http.ResponseWriter, r *http.Request) bool

	mu struct {
		sync.Mutex

		objects map[string][]byte
		uploads map[string]map[int][]byte // by id: parts by number
		count   int                       // uploads ever
		cut     func(body []byte) int     // see cutBy
		sum     func(body []byte) []byte  // see sumBy
	}
}

// pageKeys is how many keys a page of a list has.
const pageKeys = 2

// newFake serves until the test ends.
func newFake(t *testing.T) *fake {
	f := &fake{t: t}
	f.mu.objects, f.mu.uploads = make(map[string][]byte), make(map[string]map[int][]byte)
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

// client speaks to the fake, and does not pause between two tries.
func (f *fake) client() *awss3.Client {
	return awss3.New(awss3.Options{
		BaseEndpoint: aws.String(f.server.URL), Region: "us-east-1", UsePathStyle: true,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported, // as a configuration that is loaded has it
		Credentials:                credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient:                 f.server.Client(),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxBackoff = time.Millisecond
		}),
	})
}

// cutBy breaks connections: cut is asked, with the lock held, for the body of each answer to a
// Get, how many bytes of it are sent before that; -1: all.
func (f *fake) cutBy(cut func(body []byte) int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.cut = cut
}

// sumBy sends checksums: sum is asked, with the lock held, for that of each object that is read
// whole, and may change what is sent of it.
func (f *fake) sumBy(sum func(body []byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.sum = sum
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.fault != nil && f.fault(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		return // the client has gone
	}
	if r.Header.Get("Content-Encoding") == "aws-chunked" {
		f.answer(w, http.StatusNotImplemented, "NotImplemented") // the tests' client signs its bodies
		return
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPut && q.Has("uploadId"):
		f.putPart(w, q.Get("uploadId"), q.Get("partNumber"), body)
	case r.Method == http.MethodPut:
		f.mu.objects[key] = body
		w.Header().Set("ETag", etag(body))
	case r.Method == http.MethodPost && q.Has("uploads"):
		f.mu.count++
		id := fmt.Sprint("upload", f.mu.count)
		f.mu.uploads[id] = make(map[int][]byte)
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case r.Method == http.MethodPost:
		f.complete(w, key, q.Get("uploadId"), body)
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		delete(f.mu.uploads, q.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		delete(f.mu.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && key == "":
		f.list(w, q.Get("prefix"), q.Get("continuation-token"))
	case r.Method == http.MethodGet:
		f.get(w, r, key)
	default:
		f.answer(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// body is that of the object whose key has both parts.
func (f *fake) body(part, suffix string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, b := range f.mu.objects {
		if strings.Contains(key, part) && strings.HasSuffix(key, suffix) {
			return b
		}
	}
	return nil
}

func etag(b []byte) string {
	sum := md5.Sum(b)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (f *fake) answer(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func (f *fake) putPart(w http.ResponseWriter, id, number string, body []byte) {
	n, err := strconv.Atoi(number)
	parts := f.mu.uploads[id]
	if err != nil || parts == nil {
		f.answer(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	parts[n] = body
	w.Header().Set("ETag", etag(body))
}

// complete makes an object of the parts that the request names, in their order.
func (f *fake) complete(w http.ResponseWriter, key, id string, body []byte) {
	var named struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &named); err != nil {
		f.answer(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	var all []byte
	for i, p := range named.Part {
		b, ok := f.mu.uploads[id][p.PartNumber]
		if !ok || etag(b) != p.ETag || i > 0 && named.Part[i-1].PartNumber >= p.PartNumber {
			f.answer(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		all = append(all, b...)
	}
	f.mu.objects[key] = all
	delete(f.mu.uploads, id)
	fmt.Fprint(w, "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
}

func (f *fake) list(w http.ResponseWriter, prefix, after string) {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(f.mu.objects)), func(k string) bool { return !strings.HasPrefix(k, prefix) || k <= after })
	var b bytes.Buffer
	fmt.Fprintf(&b, "<ListBucketResult><IsTruncated>%t</IsTruncated>", len(keys) > pageKeys)
	for i, k := range keys[:min(len(keys), pageKeys)] {
		fmt.Fprintf(&b, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", k, len(f.mu.objects[k]))
		if i == pageKeys-1 {
			fmt.Fprintf(&b, "<NextContinuationToken>%s</NextContinuationToken>", k)
		}
	}
	b.WriteString("</ListBucketResult>")
	_, _ = w.Write(b.Bytes()) // the client may have gone
}

func (f *fake) get(w http.ResponseWriter, r *http.Request, key string) {
	b, ok := f.mu.objects[key]
	if !ok {
		f.answer(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != etag(b) {
		f.answer(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	w.Header().Set("ETag", etag(b))
	status := http.StatusOK
	if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(from, "-"))
		if err != nil || n >= len(b) {
			f.answer(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		b, status = b[n:], http.StatusPartialContent
	} else if f.mu.sum != nil {
		b = slices.Clone(b)
		w.Header().Set("x-amz-checksum-crc32", base64.StdEncoding.EncodeToString(f.mu.sum(b)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if f.mu.cut != nil {
		if n := f.mu.cut(b); n >= 0 {
			_, _ = w.Write(b[:n])       // the client may have gone
			panic(http.ErrAbortHandler) // which breaks the connection
		}
	}
	_, _ = w.Write(b) // the client may have gone
}

package lighthouse_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// maxLine is more than any line of the log may have that a stranger caused.
const maxLine = 1 << 10

// longest is the longest line of a log.
func longest(log string) string {
	found := ""
	for line := range strings.Lines(log) {
		if len(line) > len(found) {
			found = line
		}
	}
	return found
}

// TestStrangersNamesAreCut: who has no token, and shows what looks like the proof of a
// join token and a long name of a job, is told, and logged, no more than a part of it;
// and not as somebody whose proof was good.
func TestStrangersNamesAreCut(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	var log lockedBuffer
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) {
		cfg.Guard = guard.Options{Token: c.Token}
		cfg.Log = zerolog.New(&log).Level(zerolog.WarnLevel)
	})
	conn := guarded(t, &guard.Guard{Token: guard.FixedToken(guard.Secret{})}, l.Addr)
	call := func(proof string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), wire.JobMetadata, strings.Repeat(`~"`, 3_000), guard.ProofMetadata, proof)
		_, err := torchftpb.NewLighthouseServiceClient(conn).Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "x"})
		return err
	}
	err := call(fmt.Sprintf("j2 %d %032x 00 vision", time.Now().UnixMilli(), 1))
	if !denied(err, `wrong join token of job "vision"`) {
		t.Errorf("a proof of nothing: %.300v", err)
	}
	body := guard.Body(&torchftpb.LighthouseHeartbeatRequest{ReplicaId: "x"})
	good := guardtest.Open(t, guard.Options{Token: c.JoinToken(t, "vision")}).Token.ProveJoin("vision", torchftpb.LighthouseService_Heartbeat_FullMethodName, body)
	if err := call(good); !denied(err, `bound to job "vision" by its join token`) || len(err.Error()) > maxLine {
		t.Errorf("a good proof, and another job's name: %.300v", err)
	}
	testkit.Eventually(t, "both calls are logged", func() bool { return strings.Count(log.String(), "call denied") == 2 })
	if line := longest(log.String()); len(line) > maxLine {
		t.Errorf("a line of %d bytes, want at most %d: %.300s", len(line), maxLine, line)
	}
}

// TestStrangersEndedCertificateIsNoNews: a certificate that a stranger has signed
// himself, which has ended and bears a name like ours, is told to no operator.
func TestStrangersEndedCertificateIsNoNews(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	var log lockedBuffer
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) {
		cfg.Guard = c.Options(t, guard.Lighthouse, "server")
		cfg.Log = zerolog.New(&log).Level(zerolog.DebugLevel)
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server1" + strings.Repeat("\x01", 40_000)},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", l.Addr, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2"}, //nolint:gosec // a stranger does not care
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
		},
	})
	if err == nil { // the server's word comes behind the handshake
		defer conn.Close() //nolint:errcheck // it is the server that ends it
	}
	var line string
	testkit.Eventually(t, "the connection is logged", func() bool {
		for one := range strings.Lines(log.String()) {
			if strings.Contains(one, "connection not secured") {
				line = one
			}
		}
		return line != ""
	})
	if !strings.Contains(line, `"level":"debug"`) || strings.Contains(line, "server1") || len(line) > maxLine {
		t.Errorf("a line of %d bytes, want it at debug, and nothing of the name: %.300s", len(line), line)
	}
}

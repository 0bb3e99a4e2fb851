package guard

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/proof"
)

// callProof is text of words: "v2 TIME NONCE MAC"; of a join token "j2 TIME NONCE MAC
// JOB", whose job is escaped; of an order "o1 TIME NONCE SIGNATURE".
type callProof struct {
	version string
	ms      int64 // since 1970
	nonce   []byte
	mac     []byte // or a signature
	job     string // of a join token
}

// errNoProof refuses what is no proof.
var errNoProof = fmt.Errorf("%w: want a proof of the token", ErrDenied)

// freshProof is one of now, without its MAC.
func freshProof(version string) callProof {
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce) //nolint:errcheck // documented never to fail
	return callProof{version: version, ms: time.Now().UnixMilli(), nonce: nonce}
}

// String is the text.
func (p callProof) String() string {
	words := []string{p.version, strconv.FormatInt(p.ms, 10), hex.EncodeToString(p.nonce), hex.EncodeToString(p.mac)}
	if p.version == proofOfJoin {
		words = append(words, url.QueryEscape(p.job))
	}
	return strings.Join(words, " ")
}

// parseProof reads one. What it says is true only if the MAC is right.
func parseProof(text string) (callProof, error) {
	words := strings.Split(text, " ")
	want := 4
	switch words[0] {
	case proofVersion, proofOfOrder:
	case proofOfJoin:
		want = 5
	default:
		if len(words) >= want { // as callers of another build made it
			return callProof{}, fmt.Errorf("%w: want a proof of kind %s, not %s: is the other side of another build?",
				ErrDenied, proofVersion, Shown(words[0]))
		}
		return callProof{}, errNoProof
	}
	if len(words) != want {
		return callProof{}, errNoProof
	}
	p := callProof{version: words[0]}
	var err error
	if p.ms, err = strconv.ParseInt(words[1], 10, 64); err != nil {
		return callProof{}, fmt.Errorf("%w: proof without a time", ErrDenied)
	}
	if p.nonce, err = hex.DecodeString(words[2]); err != nil || len(p.nonce) != nonceBytes {
		return callProof{}, fmt.Errorf("%w: proof without a nonce", ErrDenied)
	}
	if p.mac, err = hex.DecodeString(words[3]); err != nil {
		return callProof{}, fmt.Errorf("%w: proof without a MAC", ErrDenied)
	}
	if p.version == proofOfJoin {
		if p.job, err = url.QueryUnescape(words[4]); err != nil || p.job == "" {
			return callProof{}, fmt.Errorf("%w: proof without a job", ErrDenied)
		}
	}
	return p, nil
}

// purposeOfCall is the domain of MACs of calls.
const purposeOfCall = "skerry call"

// macOf is what the holder of s says of a call.
func macOf(s Secret, p callProof, method string, body []byte) []byte {
	return proof.Of(s.bytes, purposeOfCall, p.signed(method, body))
}

// of tells whether the MAC is that of one of the tokens; each is tried.
func (p callProof) of(all []Secret, method string, body []byte) (ok bool) {
	signed := p.signed(method, body)
	for _, s := range all {
		ok = proof.Holds(p.mac, s.bytes, purposeOfCall, signed) || ok
	}
	return ok
}

// signed is what a proof covers.
func (p callProof) signed(method string, body []byte) []byte {
	sum := sha256.Sum256(body)
	return fmt.Appendf(nil, "skerry proof %s\x00%d\x00%x\x00%s\x00%x", p.version, p.ms, p.nonce, method, sum)
}

// checkProofTime checks of a proof what can be seen without what it proves.
func checkProofTime(text string) error {
	p, err := parseProof(text)
	if err != nil {
		return err
	}
	return checkAge(p.ms, ProofAge)
}

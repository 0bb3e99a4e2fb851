package digits

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the data
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// The shape of the data.
const (
	Pixels  = 64 // of one image, 8x8
	Classes = 10
	inkMost = 16 // the darkest pixel
)

//go:embed digits.csv.gz
var embedded []byte

// Dataset is rows of images and labels.
type Dataset struct {
	Images []float32 // Pixels a row, each in [0, 1]
	Labels []int     // in [0, Classes)
}

// Len is the number of rows.
func (d *Dataset) Len() int { return len(d.Labels) }

// Image is row i's pixels, a view.
func (d *Dataset) Image(i int) []float32 { return d.Images[i*Pixels : (i+1)*Pixels] }

// add appends row i of from.
func (d *Dataset) add(from *Dataset, i int) {
	d.Images = append(d.Images, from.Image(i)...)
	d.Labels = append(d.Labels, from.Labels[i])
}

// Raw is the embedded data: lines of 64 pixels of 0 to 16 and a label, compressed by gzip. It is not to
// be written to.
func Raw() []byte { return embedded }

// Load reads the embedded data, shuffles it by seed, and keeps the last fifth
// for testing.
func Load(seed uint64) (train, test *Dataset, err error) {
	all, err := parse(embedded)
	if err != nil {
		return nil, nil, fmt.Errorf("read embedded digits: %w", err)
	}
	r := rand.New(rand.NewPCG(seed, streamSplit))
	train, test = &Dataset{}, &Dataset{}
	for n, i := range r.Perm(all.Len()) {
		if n < all.Len()*4/5 {
			train.add(all, i)
		} else {
			test.add(all, i)
		}
	}
	return train, test, nil
}

// What a seed is used for. Each use draws from its own stream.
const (
	streamSplit = iota + 1
	streamInit
	streamBatch
)

func parse(packed []byte) (*Dataset, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	rows := csv.NewReader(unzip)
	rows.FieldsPerRecord = Pixels + 1
	all, err := rows.ReadAll()
	if err != nil {
		return nil, err
	}
	d := &Dataset{}
	for i, row := range all {
		if err := d.parseRow(row); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return d, nil
}

func (d *Dataset) parseRow(row []string) error {
	for _, field := range row[:Pixels] {
		ink, err := strconv.Atoi(field)
		if err != nil || ink < 0 || ink > inkMost {
			return fmt.Errorf("pixel %q, want 0 to %d", field, inkMost)
		}
		d.Images = append(d.Images, float32(ink)/inkMost)
	}
	label, err := strconv.Atoi(row[Pixels])
	if err != nil || label < 0 || label >= Classes {
		return fmt.Errorf("label %q, want 0 to %d", row[Pixels], Classes-1)
	}
	d.Labels = append(d.Labels, label)
	return nil
}

// Shard says which part of the training rows a replica learns from: every
// Count-th, beginning with Index. It stays the replica's own whoever else is
// there. Shards that follow the quorum, so that the rows of a replica that died
// are read by the others, are manager.WaitParticipants' Rank and Count, asked for
// in every step.
type Shard struct{ Index, Count int }

// Batch draws size rows of the shard for one step, with replacement. It
// depends on nothing but its arguments, so a restarted replica needs no state
// of its sampler.
func (d *Dataset) Batch(seed uint64, step int64, shard Shard, size int) *Dataset {
	r := rand.New(rand.NewPCG(seed^uint64(step)<<20, streamBatch+uint64(shard.Index)<<8))
	mine := (d.Len() - shard.Index + shard.Count - 1) / shard.Count
	b := &Dataset{Images: make([]float32, 0, size*Pixels), Labels: make([]int, 0, size)}
	for range size {
		b.add(d, shard.Index+r.IntN(mine)*shard.Count)
	}
	return b
}

package protocol_test

import (
	"testing"
	"time"

	"durablestreams/internal/protocol"
)

func TestReserve(t *testing.T) {
	c := newClient(t, &protocol.Options{MaxBody: 100 << 10, MaxInflight: 400 << 10}).core
	if !c.Reserve(0, 100<<10) || !c.Reserve(100<<10, 300<<10) {
		t.Fatal("no room for what large bodies may take")
	}
	if c.Reserve(0, 64<<10+1) {
		t.Error("a large body takes the small ones' share")
	}
	if !c.Reserve(0, 64<<10) || c.Reserve(0, 64<<10) || c.Use().Inflight != 364<<10 {
		t.Errorf("small bodies: %d bytes", c.Use().Inflight)
	}
	c.Release(300 << 10)
	c.Release(64 << 10)
	if c.Use().Inflight != 0 {
		t.Errorf("%d bytes are left", c.Use().Inflight)
	}
}

func TestBodyPace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		burst int64         // at the beginning
		size  int64         // of each piece
		every time.Duration // between two
		want  time.Duration // until it is given up; 0: not within an hour
	}{
		{"a byte now and then", 0, 1, 29 * time.Second, 10*time.Minute + 9*time.Second},
		{"slow and small", 0, 1 << 10, 29 * time.Second, 10*time.Minute + 9*time.Second},
		{"a byte at the end of much", 15 << 20, 1, 29 * time.Second, 116 * time.Second},
		{"quick bytes at the end of much", 15 << 20, 1, time.Second, time.Minute},
		{"slow and large", 1 << 20, 20 << 10, 10 * time.Second, 0},
		{"too slow and large", 1 << 20, 9 << 10, 10 * time.Second, time.Minute},
		{"in bursts", 0, 100 << 10, 29 * time.Second, 0},
	} {
		var p protocol.BodyPace
		begin := time.Unix(1000, 0)
		now, got := begin, tt.burst
		p.Keeps(now, 0)
		gone := time.Duration(0)
		if p.Keeps(now, got); now.Sub(begin) == 0 {
			for gone == 0 && now.Sub(begin) < time.Hour {
				now, got = now.Add(tt.every), got+tt.size
				if !p.Keeps(now, got) {
					gone = now.Sub(begin)
				}
			}
		}
		if gone != tt.want {
			t.Errorf("%s: given up after %v, want %v", tt.name, gone, tt.want)
		}
	}
}

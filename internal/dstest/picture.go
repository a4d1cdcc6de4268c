package dstest

import (
	"context"
	"errors"
	"io"

	"durablestreams/store"
)

// Pictured is what a picture can be taken of.
type Pictured interface {
	Picture(ctx context.Context) (*store.Picture, error)
}

// TakePicture takes a picture of a running engine and puts it on a disk of its own.
func TakePicture(e Pictured) (*Disk, error) {
	p, err := e.Picture(context.Background())
	if err != nil {
		return nil, err
	}
	disk, err := CopyPicture(p)
	return disk, errors.Join(err, p.Close())
}

// CopyPicture puts a picture on a disk of its own.
func CopyPicture(p *store.Picture) (*Disk, error) {
	disk := NewDisk()
	for _, f := range p.Files {
		path := disk.PathJoin(Dir, f.Name)
		if err := disk.MkdirAll(disk.PathDir(path), 0o755); err != nil {
			return nil, err
		}
		r, err := p.Open(f)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		if int64(len(b)) != f.Size {
			return nil, errors.New(f.Name + " is shorter than the picture says")
		}
		disk.Put(path, b)
	}
	return disk, nil
}

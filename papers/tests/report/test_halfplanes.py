import torch

from alive_papers.report import halfplanes


def test_the_picture_shows_what_the_theorem_says(tmp_path):
    lost = halfplanes.halfplanes(tmp_path / "p.png")
    assert lost["Farkas"] == 0 < lost["batch norm"] < lost["plain"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_the_farkas_layer_is_active_everywhere_and_keeps_the_plain_rows():
    made = halfplanes.layers()
    plain, farkas = made["plain"], made["Farkas"]
    x = 100 * torch.randn(5000, 2, generator=torch.Generator().manual_seed(0))
    assert (halfplanes.active(farkas, x) > 0).all()
    torch.testing.assert_close(farkas(x)[:, :2], plain(x)[:, :2])
    dead = (plain(x) <= 0).all(1)
    assert torch.equal(halfplanes.active(plain, x) == 0, dead)
    assert dead.any()

"""The five papers, and the numbers they go by here: 001-Fig4 is Figure 4 of paper 001, 004-T1 Table 1 of paper 004."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper, and the short name its experiments have here."""

    number: str
    short: str
    authors: str
    title: str
    year: int
    place: str

    def __str__(self) -> str:
        return f"{self.authors}: {self.title}, {self.year} ({self.place})"


PAPERS = {
    paper.number: paper
    for paper in (
        Paper(
            "000",
            "Farkas layers",
            "Aram-Alexandre Pooladian, Chris Finlay and Adam M. Oberman",
            "Farkas layers: don't shift the data, fix the geometry",
            2019,
            "arXiv:1910.02840",
        ),
        Paper(
            "001",
            "Separation constraints",
            "Carles Riera, Camilo Rey-Torres, Eloi Puertas and Oriol Pujol",
            "Superseding model scaling by penalizing dead units and points with separation constraints",
            2019,
            "submitted to ICLR 2020",
        ),
        Paper(
            "002",
            "Variable activation networks",
            "Ricardo Pio Monti, Sina Tootoonian and Robin Cao",
            "Avoiding degradation in deep feed-forward networks by phasing out skip-connections",
            2018,
            "submitted to ICLR 2018; ICANN 2018",
        ),
        Paper(
            "003",
            "Identity matters",
            "Moritz Hardt and Tengyu Ma",
            "Identity matters in deep learning",
            2017,
            "ICLR 2017",
        ),
        Paper(
            "004",
            "Jumpstart",
            "Carles Riera, Camilo Rey, Thiago Serra, Eloi Puertas and Oriol Pujol",
            "Training thinner and deeper neural networks: Jumpstart regularization",
            2022,
            "CPAIOR 2022; arXiv:2201.12795",
        ),
    )
}

"""The terms of the cost: residuals of each reading, and their Jacobians by the root's rotation and by each joint.

Every term has three rows (a touched plane one) for each pose. With ``R`` the root's rotation in the world and ``w`` a
small turn of it about the world's axes, ``R ← exp(w) R``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard.kinematics import cross

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.contacts import Contact
    from steelyard.calibration.frame_chains import FrameChains, FramePlacements


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Residuals of one term and their Jacobians.

    Attributes:
        residuals: Shape (n_poses, n_rows).
        by_turn: By a turn of the root about the world's axes, shape (n_poses, n_rows, 3).
        by_joint: By each joint of the chains, shape (n_poses, n_rows, n_joints).
        by_own: By the term's own unknowns (mounting, marker, …), shape (n_poses, n_rows, n_own).
        by_place: By the root's position in the world, shape (n_poses, n_rows, 3), or None where it has no effect.
        by_laboratory: By turn and position of the laboratory's frame, shape (n_poses, n_rows, 6), or None.
    """

    residuals: FloatArray
    by_turn: FloatArray
    by_joint: FloatArray
    by_own: FloatArray
    by_place: FloatArray | None = None
    by_laboratory: FloatArray | None = None


def orientation_rows(
    chains: FrameChains,
    places: FramePlacements,
    frame: int,
    root: FloatArray,
    mounting: FloatArray,
    measured: FloatArray,
) -> ResidualRows:
    """Compute the rows of an inertial sensor's orientation.

    [yamane2011] Eqs. (2)–(4) compare three points at the distance d from the sensor. Their squared distances add up to
    ``2 d² |e|²`` exactly, with ``e`` twice the vector part of the quaternion from the predicted to the measured
    orientation; ``e`` is the residual, in the sensor's own axes, nearly the rotation in rad. Its own unknown is a small
    rotation of the sensor against its frame.

    Args:
        chains: The chains.
        places: Placements of the frames.
        frame: Index of the sensor's frame.
        root: Rotation of the root in the world, shape (n, 3, 3).
        mounting: Rotation from the sensor's axes to its frame's, shape (3, 3).
        measured: Rotation from the sensor's axes to the world's, shape (n, 3, 3); the unit where there is none.
    """
    predicted = root @ places.rotations[frame] @ mounting
    turn = Rotation.from_matrix(np.swapaxes(predicted, 1, 2) @ measured).as_quat(canonical=True)
    vector, scalar = turn[:, :3], turn[:, 3]
    by_own = skew(vector) - scalar[:, None, None] * np.eye(3)
    by_turn = by_own @ np.swapaxes(predicted, 1, 2)
    return ResidualRows(2.0 * vector, by_turn, by_turn @ root @ chains.rotation_jacobian(places, frame), by_own)


def contact_rows(
    chains: FrameChains, places: FramePlacements, frame: int, contact: Contact, root: FloatArray, heights: FloatArray
) -> ResidualRows:
    """Compute the rows of a flat contact: heights of its corners over the plane, as `Contact.modes`.

    [yamane2011] Eq. (5) is the variance of the corners' heights: the mean square of these rows over the number of
    corners, at the height of the plane that makes it least. Its own unknown is that height, one for each pose.

    Args:
        chains: The chains.
        places: Placements of the frames.
        frame: Index of the contact's frame.
        contact: The contact.
        root: Rotation of the root in the world, shape (n, 3, 3).
        heights: Of the plane above the root's origin, shape (n,), m.
    """
    sums, shares = contact.modes
    vectors = np.einsum("nij,aj->nai", places.rotations[frame], sums)
    vectors += shares[:, None] * places.positions[frame][:, None, :]
    up = root[:, 2, :]
    turned = np.einsum("nij,naj->nai", root, vectors)
    by_turn = np.stack([turned[..., 1], -turned[..., 0], np.zeros_like(turned[..., 0])], axis=2)
    by_joint = np.zeros((len(up), 3, len(chains.joints)))
    for number in np.flatnonzero(chains.carries[frame]):
        axis = places.axes[number]
        if chains.sliding[number]:
            by_joint[:, :, number] = shares * np.einsum("ni,ni->n", up, axis)[:, None]
        else:
            arms = vectors - shares[:, None] * places.origins[number][:, None, :]
            by_joint[:, :, number] = np.einsum("nai,ni->na", arms, cross(up, axis))
    residuals = turned[..., 2] - shares * heights[:, None]
    by_own = np.broadcast_to(-shares[:, None], (len(up), 3, 1))
    return ResidualRows(residuals, by_turn, by_joint, by_own)


def point_rows(
    chains: FrameChains, places: FramePlacements, frame: int, point: FloatArray, root: FloatArray, origin: FloatArray
) -> ResidualRows:
    """Compute the position of a link's point in the world, as residuals; its own unknown is its position in the frame.

    Args:
        chains: The chains.
        places: Placements of the frames.
        frame: Index of the frame.
        point: In that frame, shape (3,), m.
        root: Rotation of the root in the world, shape (n, 3, 3).
        origin: Of the root in the world, shape (n, 3), m.
    """
    inside = places.positions[frame] + places.rotations[frame] @ point
    arm = np.einsum("nij,nj->ni", root, inside)
    by_joint = root @ chains.point_jacobian(places, frame, inside)
    return ResidualRows(
        arm + origin, -skew(arm), by_joint, root @ places.rotations[frame], np.broadcast_to(np.eye(3), (len(arm), 3, 3))
    )


def marker_rows(
    world: ResidualRows, rotation: FloatArray, translation: FloatArray, measured: FloatArray
) -> ResidualRows:
    """Compute the rows of a marker: predicted less measured position in the laboratory's frame.

    Args:
        world: Its predicted position in the world; see `point_rows`.
        rotation: From the world's axes to the laboratory's, shape (3, 3).
        translation: Of the world's origin in the laboratory, shape (3,), m.
        measured: Positions seen, shape (n, 3), m.
    """
    turned = world.residuals @ rotation.T
    by_place = None if world.by_place is None else rotation @ world.by_place
    laboratory = np.concatenate([-skew(turned), np.broadcast_to(np.eye(3), (len(turned), 3, 3))], axis=2)
    return ResidualRows(
        turned + translation - measured,
        rotation @ world.by_turn,
        rotation @ world.by_joint,
        rotation @ world.by_own,
        by_place,
        laboratory,
    )


def touched_point_rows(world: ResidualRows, place: FloatArray) -> ResidualRows:
    """Compute the rows of a tip that touches one point; its own unknown is that point, shape (3,), m."""
    by_own = np.broadcast_to(-np.eye(3), (len(world.residuals), 3, 3))
    return ResidualRows(world.residuals - place, world.by_turn, world.by_joint, by_own, world.by_place)


def touched_plane_rows(world: ResidualRows, normal: FloatArray, distance: float) -> ResidualRows:
    """Compute the row of a tip that touches one plane: its distance from it.

    Its own unknowns are two small tilts of the plane, along `tangents`, and its distance from the world's origin.
    """
    along = world.residuals @ normal
    tilts = world.residuals @ tangents(normal).T
    by_own = np.concatenate([tilts, np.full((len(tilts), 1), -1.0)], axis=1)[:, None, :]
    by_place = None if world.by_place is None else (normal @ world.by_place)[:, None, :]
    return ResidualRows(
        (along - distance)[:, None],
        (normal @ world.by_turn)[:, None, :],
        (normal @ world.by_joint)[:, None, :],
        by_own,
        by_place,
    )


def tangents(normal: FloatArray) -> FloatArray:
    """Return two unit vectors orthogonal to a unit vector and to each other, shape (2, 3)."""
    least = np.eye(3)[int(np.argmin(np.abs(normal)))]
    first = np.cross(normal, least)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(normal, first)])


def skew(vectors: FloatArray) -> FloatArray:
    """Return the cross-product matrices of vectors, shape (n, 3, 3)."""
    matrices = np.zeros((len(vectors), 3, 3))
    x, y, z = vectors.T
    matrices[:, 0, 1], matrices[:, 0, 2], matrices[:, 1, 2] = -z, y, -x
    matrices[:, 1, 0], matrices[:, 2, 0], matrices[:, 2, 1] = z, -y, x
    return matrices
